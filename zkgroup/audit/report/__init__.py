"""The report: findings and history as plain data, and one HTML file that shows them."""
