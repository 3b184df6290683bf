// The one place of the Collector's version. There is no go.sum: tests/support/collector.py builds
// in a copy, where Go writes one after asking its checksum database.
module orbiter.dev/collector

go 1.26.0

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter v0.160.0
	go.opentelemetry.io/collector/exporter/debugexporter v0.160.0
	go.opentelemetry.io/collector/otelcol v0.160.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.160.0
)
