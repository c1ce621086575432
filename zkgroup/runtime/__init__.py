"""What every machine of zkgroup stands on, whatever it decides.

A machine is pure: `step(event, now) -> effects`. Here are the parts that do not depend on what it is for:
effects and events about ZooKeeper and time, procedures (recipes as generators) and the runner that
drives one at a time, the books of what was asked, the machine that is nothing but these (`machine`: brokers
and controllers; a member is more), and the loop with the thread that owns a machine.
"""
