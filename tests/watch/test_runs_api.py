"""What the page is told of runs: the table, curves and details, also while files are being written, damaged or removed."""
