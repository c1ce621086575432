"""The exhaustive model of slots, markers, generations and commits of the group coordinator."""
