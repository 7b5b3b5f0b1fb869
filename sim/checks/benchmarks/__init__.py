"""The benchmarks: each module measures one quantity and returns a table of rows."""
