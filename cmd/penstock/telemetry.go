package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

type telemetry struct {
	provider  trace.TracerProvider
	collector netip.AddrPort // OTLP over gRPC for Envoy's spans; invalid means none
	sampling  float64        // in percent
	shutdown  func(context.Context) error
}

func newTelemetry(ctx context.Context) (*telemetry, error) {
	t := &telemetry{provider: noop.NewTracerProvider(), sampling: 100,
		shutdown: func(context.Context) error { return nil }}
	endpoint := firstOf("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none" || exporter == "" && endpoint == "" {
		return t, nil
	}
	protocol := firstOf("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if protocol != "" && protocol != "grpc" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: write grpc or http/protobuf", protocol)
	}
	if arg := os.Getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
		ratio, err := strconv.ParseFloat(arg, 64)
		if err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: write a ratio from 0 to 1", arg)
		}
		t.sampling = ratio * 100
	}
	if err := checkHeaders("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"); err != nil {
		return nil, err
	}
	spans, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry: %w", err)
	}
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithProcessPID())
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry resource: %w", err)
	}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		if res, err = resource.Merge(res, resource.NewSchemaless(attribute.String("service.name", "penstock"))); err !=
			nil {
			return nil, fmt.Errorf("OpenTelemetry resource: %w", err)
		}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(res))
	t.provider, t.shutdown = provider, provider.Shutdown
	if endpoint != "" && protocol == "grpc" {
		if t.collector, err = resolveCollector(ctx, endpoint); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// checkHeaders returns an error for a variable that is no list of headers. OpenTelemetry would log
// it, and it may have a credential.
func checkHeaders(variables ...string) error {
	for _, name := range variables {
		for one := range strings.SplitSeq(os.Getenv(name), ",") {
			key, value, ok := strings.Cut(one, "=")
			if _, err := url.PathUnescape(value); err != nil ||
				one != "" && (!ok || strings.ContainsAny(strings.TrimSpace(key), " :")) {
				return fmt.Errorf("%s is no list of headers: write NAME=VALUE, separated by commas, with "+
					"percent-encoded values, such as authorization=Bearer%%20TOKEN", name)
			}
		}
	}
	return nil
}

func (t *telemetry) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = t.shutdown(ctx) // unsent spans are dropped
}

func firstOf(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// resolveCollector resolves the collector's host, because Envoy needs an IP address.
func resolveCollector(ctx context.Context, endpoint string) (netip.AddrPort, error) {
	fail := func(err error) (netip.AddrPort, error) {
		return netip.AddrPort{}, fmt.Errorf("OTLP endpoint %q for Envoy's spans: %w", endpoint, err)
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return fail(err)
	}
	endpoint = u.Redacted()
	port := uint64(4317)
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil {
			return fail(err)
		}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return fail(err)
	}
	return netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), nil
}
