"""The production machine under the simulator: schedules, named interleavings, and bugs put in on purpose."""
