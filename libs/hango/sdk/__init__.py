"""What users of hango import: the client and the tool server. `import hango` reaches both."""
