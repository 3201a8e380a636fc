"""Speed of one training step, against other libraries and against what the machine can do. `make bench` runs it."""
