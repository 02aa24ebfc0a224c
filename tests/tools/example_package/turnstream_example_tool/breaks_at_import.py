"""What a package may do while it is imported: raise."""

raise RuntimeError("password=hunter2")
