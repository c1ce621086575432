"""The report: what was found and what happened, as plain data, and one HTML file that shows it."""
