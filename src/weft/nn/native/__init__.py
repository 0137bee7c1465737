"""C code, compiled for this machine on first use. Without a compiler torch computes the same, more slowly."""
