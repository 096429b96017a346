"""Sources of jobs: a file per source, and transformations."""
