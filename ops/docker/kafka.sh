#!/usr/bin/env bash
# One node of Kafka in a container: broker and controller. Its data folder is made at the first start and kept.
set -euo pipefail

data=/var/lib/kafka
properties=/tmp/server.properties
name=${KAFKA_HOST:-kafka}

{
  cat /opt/server.properties
  cat <<OWN
node.id=1
# A node alone that comes back waits until its old registration has timed out.
broker.session.timeout.ms=30000
listeners=PLAINTEXT://:9092,HOST://:9094,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://${name}:9092,HOST://localhost:${KAFKA_PORT:-9094}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters=1@127.0.0.1:9093
log.dirs=${data}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
OWN
} > "$properties"

run=(java -Xms256m "-Xmx${KAFKA_HEAP:-512m}" -XX:+UseSerialGC
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true -cp '/opt/kafka/*')

if [ ! -e "$data/log/meta.properties" ]; then
  id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
  "${run[@]}" kafka.tools.StorageTool format --cluster-id="$id" -c "$properties"
fi
exec "${run[@]}" kafka.Kafka "$properties"
