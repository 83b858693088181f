"""The agent loop: judges, suspends, resumes. It knows no wire, no database and no bus."""
