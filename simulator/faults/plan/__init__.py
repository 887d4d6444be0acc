"""Plans of faults as data: read, checked, drawn."""
