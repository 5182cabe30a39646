"""The benchmarks: one folder each. They are found by entry point, see `workbench.contract`; none imports another."""
