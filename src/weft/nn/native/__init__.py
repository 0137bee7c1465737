"""C of our own, compiled for this machine when it is first needed; without a compiler torch does the same, slower."""
