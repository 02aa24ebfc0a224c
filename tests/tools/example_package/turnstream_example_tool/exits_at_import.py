"""What a package may do while it is imported: end the process."""

raise SystemExit(3)
