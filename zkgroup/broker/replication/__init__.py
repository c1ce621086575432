"""Replication of lines: what leaders and followers decide, over any place that keeps lines.

* `epochs`: which term each line is from, and where two logs part
* `term`: what a leader knows of its followers, and the high watermark
* `line_log`: the ports behind which lines are kept
* `replica`: one replica, its roles and the two requests
* `hosting`: the replicas of a broker: `ReplicaHost` over whatever keeps the lines

Pure but for what stands behind the ports.
"""
