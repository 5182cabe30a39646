"""Speech engines, one module each; `workbench.construct.voices` has the interface and the registry."""
