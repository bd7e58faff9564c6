"""The team mends a function of a public package that was broken on purpose; the package's own tests judge."""
