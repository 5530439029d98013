"""A real Kafka broker on loopback, and a client of it, from the jars that Maven gives."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

KAFKA = "4.0.0"
#: What Spark's connector is made of: the one of the installed Spark; else the newest that was found to
#: work with it, jar by jar, because not every repository has every release.
CONNECTORS = (
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", pyspark.__version__),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", pyspark.__version__),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ),
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ),
)

Coordinates = tuple[str, str, str]

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{other}
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


class Record(NamedTuple):
    """What a consumer gets."""

    partition: int
    offset: int
    key: str | None
    value: str | None


def connector_jars(folder: Path) -> list[str]:
    """The jars of Spark's Kafka connector; skips the test where they cannot be had."""
    reasons = []
    for coordinates in CONNECTORS:
        found = _resolve(folder, coordinates, alone=True)
        if isinstance(found, list):
            return found
        reasons.append(found)
    pytest.skip(f"Spark's Kafka connector cannot be had: {reasons[0]}")


def broker_jars(folder: Path) -> list[str]:
    """The jars of a Kafka broker; skips the test where they cannot be had."""
    found = _resolve(folder, [("org.apache.kafka", "kafka_2.13", KAFKA)], alone=False)
    if not isinstance(found, list):
        pytest.skip(f"a Kafka broker cannot be had: {found}")
    return found


def _resolve(folder: Path, coordinates: Iterable[Coordinates], *, alone: bool) -> list[str] | str:
    """Paths of the jars, without what they depend on if `alone`; or why not."""
    maven = shutil.which("mvn")
    if maven is None:
        return "mvn is not installed"
    dependencies = (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{_ALONE if alone else ''}</dependency>"
        for group, name, version in coordinates
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format("".join(dependencies)))
    command = [maven, "-B", "-q", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        return "mvn took too long"
    if done.returncode:
        return next((line for line in done.stdout.splitlines() if "ERROR" in line), "mvn failed")
    return (folder / "classpath").read_text().split(os.pathsep)


class Broker:
    """One Kafka node in a process of its own."""

    def __init__(self, folder: Path, jars: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.jars = list(jars)
        self._java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", os.pathsep.join(jars)]
        self._port, other = _free_ports(2)
        self._settings = folder / "server.properties"
        self._settings.write_text(_PROPERTIES.format(port=self._port, other=other, folder=folder))
        format_it = ["kafka.tools.StorageTool", "format", "-t", "dG9jc2luLXRlc3RzLWtmaw", "-c"]
        made = subprocess.run(
            [*self._java, *format_it, str(self._settings)], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        self.kill()
        raise AssertionError((self._folder / "broker.log").read_text()[-2000:])

    def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Client:
    """Topics, records in, records out. The Java client does it, called through py4j."""

    def __init__(self, address: str, jars: Sequence[str]) -> None:
        py4j = importlib.import_module("py4j.java_gateway")
        mine = Path(pyspark.__file__).parent / "jars"
        classpath = os.pathsep.join([*jars, *map(str, mine.glob("py4j-*.jar"))])
        jar = str(next(mine.glob("py4j-*.jar")))
        self._gateway = py4j.JavaGateway.launch_gateway(
            classpath=classpath, jarpath=jar, javaopts=["-Xmx256m"], die_on_exit=True
        )
        self._java: Any = self._gateway.jvm
        self._address = address
        self._producer: Any = None

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic."""
        admin = self._java.org.apache.kafka.clients.admin.AdminClient.create(self._settings())
        topics = self._java.java.util.ArrayList()
        topics.add(self._java.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1))
        admin.createTopics(topics).all().get()
        admin.close()

    def send(self, topic: str, values: Iterable[str | None], partition: int = 0) -> None:
        """Append records, and wait until the broker has them."""
        if self._producer is None:
            text = "org.apache.kafka.common.serialization.StringSerializer"
            settings = self._settings(**{"key.serializer": text, "value.serializer": text, "acks": "all"})
            self._producer = self._java.org.apache.kafka.clients.producer.KafkaProducer(settings)
        record = self._java.org.apache.kafka.clients.producer.ProducerRecord
        for value in values:
            self._producer.send(record(topic, partition, None, value))
        self._producer.flush()

    def read(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        text = "org.apache.kafka.common.serialization.StringDeserializer"
        settings = self._settings(**{"key.deserializer": text, "value.deserializer": text})
        consumer = self._java.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        places = self._java.java.util.ArrayList()
        for info in consumer.partitionsFor(topic):
            places.add(self._java.org.apache.kafka.common.TopicPartition(topic, info.partition()))
        consumer.assign(places)
        consumer.seekToBeginning(places)
        ends = consumer.endOffsets(places)
        found: list[Record] = []
        while any(consumer.position(place) < ends[place] for place in places):
            batch = consumer.poll(self._java.java.time.Duration.ofMillis(500))
            found += [
                Record(record.partition(), record.offset(), record.key(), record.value())
                for place in places
                for record in batch.records(place)
            ]
        consumer.close()
        return sorted(found)

    def close(self) -> None:
        """End the client's own process."""
        if self._producer is not None:
            self._producer.close(self._java.java.time.Duration.ofSeconds(5))
        self._gateway.shutdown()

    def _settings(self, **others: str) -> Any:
        settings = self._java.java.util.Properties()
        for name, value in {"bootstrap.servers": self._address, **others}.items():
            settings.put(name, value)
        return settings


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
