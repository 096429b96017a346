"""Where jobs come from: a file per source, and transformations."""
