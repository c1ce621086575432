# The public names, for type checkers and for `zkgroup.exports`: one list for both.
from zkgroup.broker.broker import AsyncBroker as AsyncBroker
from zkgroup.broker.broker import Broker as Broker
from zkgroup.broker.controller_only import ControllerOnly as ControllerOnly
from zkgroup.broker.network import BrokerHealth as BrokerHealth
from zkgroup.broker.replica_view import ReplicaView as ReplicaView
from zkgroup.broker.security_settings import SecuritySettings as SecuritySettings
from zkgroup.broker.settings import BrokerSettings as BrokerSettings
from zkgroup.broker.telemetry import BrokerListener as BrokerListener
