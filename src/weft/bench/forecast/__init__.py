"""`weft bench forecast`: forecasts beside the LSTM and DeepAR of NeuralForecast, all with their defaults."""

from weft.bench.forecast.case import ForecastCase, check_contenders, installed, plan_forecast, versions
from weft.bench.forecast.measure import ForecastFigures, ForecastOutcome, measure_forecast, tabulate_forecast

__all__ = [
    "ForecastCase",
    "ForecastFigures",
    "ForecastOutcome",
    "check_contenders",
    "installed",
    "measure_forecast",
    "plan_forecast",
    "tabulate_forecast",
    "versions",
]
