"""The commands of ``tallystream``, one file each."""
