"""Scheduling, process supervision, the journal and the control socket."""
