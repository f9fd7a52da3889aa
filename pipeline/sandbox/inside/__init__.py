"""What runs inside a sandbox. These modules import the standard library and each other, nothing else."""
