"""Many clients of a server at once: rate, latency and memory, beside batches of one and other software."""
