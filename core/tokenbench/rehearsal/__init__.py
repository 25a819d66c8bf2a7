"""A scripted, metering Messages API on loopback: rehearsals, the demo, tests."""
