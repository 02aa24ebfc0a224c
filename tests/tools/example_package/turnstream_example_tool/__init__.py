"""Tools of a third party for turnstream."""
