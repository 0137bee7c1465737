"""Runs on the Hugging Face hub: addresses such as hf://OWNER/NAME, pulling with all checks, and pushing."""
