"""Models of real providers. The providers' libraries are loaded at the first call, not before."""
