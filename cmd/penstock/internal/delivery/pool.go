package delivery

import (
	"crypto/sha256"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

func pickerPool(pp translator.PickerPool) picker.Pool {
	s := pp.Pool.Settings
	out := picker.Pool{
		ID:           pp.Pool.Name,
		Strategy:     s.Strategy,
		Shadow:       s.Shadow,
		Plugins:      s.Plugins,
		Criticality:  schedule.Criticality(s.Criticality),
		Models:       models(pp.Models),
		TrustHeaders: s.TrustHeaders,
		ShedAfter:    s.ShedAfter,
		FlowControl:  flowControl(&s),
		Hashing: schedule.Hashing{VirtualNodes: int(s.VirtualNodes),
			LoadFactor: float64(s.LoadFactorPercent) / 100},
		UserMessages:  int(s.UserMessages),
		SessionTTL:    time.Duration(s.SessionTTL) * time.Second,
		SessionCookie: s.SessionCookie,
		Full: schedule.Full{Queue: s.FullQueue, KVCachePercent: s.FullKVCachePercent,
			InFlight: s.FullInFlight},
		Responses: s.ResponseAffinity,
		Spills:    pp.Pool.Picker.Spills,
		Spill:     pp.Pool.Picker.Spill,
		Fallbacks: int(s.Fallbacks),

		NoHeadersLimit: s.NoHeadersTimeout,

		Metrics: endpoint.Metrics{Engine: endpoint.Engine(s.Engine), Path: s.MetricsPath, Port: uint16(s.MetricsPort),
			Queue: s.QueueName, Running: s.RunningName, KVCache: s.KVCacheName, MaxPage: int64(s.MaxMetricsPage)},
	}
	out.LoadPort = uint16(s.LoadStatPort)
	if at := pp.Gateways; at != nil {
		return gatewayPool(out.ID, pp.Pool.Protocol, at)
	}
	if c := pp.Choice; c != nil {
		chosen := choicePool(out.ID, pp.Pool.Picker.Body, c)
		chosen.SessionTTL, chosen.SessionCookie, chosen.Responses = out.SessionTTL, out.SessionCookie, c.Responses
		return chosen
	}
	out.Metrics.Protocol = serverProtocol(pp)
	if e := s.KVEvents; e.Dial || e.Listen {
		out.KVEvents = &picker.KVEvents{Port: uint16(e.Port), ReplayPort: uint16(e.ReplayPort), Topic: e.Topic,
			Render: e.Render}
	}
	for _, s := range pp.Scorers {
		at, tls := dialed(&s)
		out.Scorers = append(out.Scorers, picker.Scorer{Addresses: at, TLS: tls})
	}
	out.Processor = processor(pp)
	switch {
	case pp.Pool.Picker.Body != model.BodyBuffered:
	case (s.Prefix || s.ResponseAffinity) && !s.EveryBody && !s.ReadsModels && s.Processor == nil && pp.External == nil:
		out.Body = picker.BodyPrompts
	default:
		out.Body = picker.BodyBuffered
	}
	if at := pp.External; at != nil {
		out.Relay = &picker.Relay{Listed: pp.Pool.Relay == nil, Pool: pp.Pool.Picker.RemotePool}
		out.Relay.Pickers, out.Relay.TLS = dialed(at)
		if names := pp.Pool.Picker.Names; names != nil {
			out.Relay.Names = extproc.Names(*names)
		}
		if r := pp.Pool.Relay; r != nil {
			out.Relay.Ports, out.Relay.Within = pp.Pool.Ports, r.Within
		}
		for _, m := range pp.Members[:min(len(pp.Members), picker.MaxServers)] {
			out.Servers = append(out.Servers, picker.Server{Addr: m.Address, Labels: m.Labels})
		}
		return out
	}
	for _, m := range pp.Members {
		out.Endpoints = append(out.Endpoints, endpoint.Spec{
			Addr: m.Address, Pod: m.Pod, Labels: m.Labels, Draining: m.Draining,
		})
	}
	return out
}

func processor(pp translator.PickerPool) *picker.Processor {
	if pp.Processor == nil {
		return nil
	}
	s := pp.Pool.Settings.Processor
	host := s.Host
	if s.Service != "" {
		host = s.Service + "." + pp.Pool.Name.Namespace + ".svc"
	}
	out := &picker.Processor{Host: net.JoinHostPort(host, strconv.Itoa(int(s.Port))), Path: s.Path, Timeout: s.Timeout,
		Headers: s.Headers, Route: s.Route}
	out.Addresses, out.TLS = dialed(pp.Processor)
	return out
}

func choicePool(id objectid.Target, body model.BodyMode, c *translator.Choice) picker.Pool {
	out := picker.Pool{ID: id, Clusters: &picker.Clusters{
		Margin: c.Margin, Latency: c.Latency, Blind: c.Blind, Sessions: c.Sessions,
	}}
	out.Metrics.Off = true
	if body == model.BodyBuffered {
		out.Body = picker.BodyPrompts
	}
	for _, m := range c.Members {
		out.Clusters.List = append(out.Clusters.List,
			picker.Cluster{Name: m.Name, Hop: m.Hop.Address(), Local: m.Local, Servers: m.Servers, NoGRPC: m.NoGRPC})
	}
	for _, h := range c.Further {
		out.Clusters.Further = append(out.Clusters.Further, h.Address())
	}
	return out
}

func gatewayPool(id objectid.Target, protocol model.Protocol, at *model.ExternalPicker) picker.Pool {
	out := picker.Pool{ID: id, Gateways: true}
	out.Metrics.Protocol.HTTP2 = protocol == model.H2C
	addresses, secure := dialed(at)
	out.Metrics.Off = true
	// an error means an invalid client certificate; no server is then called over TLS
	if config, err := secure.Config(); err == nil {
		out.Metrics.Protocol.TLS = config
	}
	for _, a := range addresses[:min(len(addresses), picker.MaxServers)] {
		if a.Cleartext || out.Metrics.Protocol.TLS != nil {
			out.Servers = append(out.Servers, picker.Server{Addr: a.AddrPort, Cleartext: a.Cleartext})
		}
	}
	return out
}

func models(m *model.Models) *picker.Models {
	if m == nil {
		return nil
	}
	rule := func(r model.ModelRule) (out picker.ModelRule) {
		out.Criticality = schedule.Criticality(r.Criticality)
		for _, t := range r.Targets {
			out.Targets = append(out.Targets, picker.ModelTarget(t))
		}
		return out
	}
	out := &picker.Models{Objectives: m.Objectives}
	if m.Other != nil {
		other := rule(*m.Other)
		out.Other = &other
	}
	if len(m.Named) > 0 {
		out.Named = make(map[string]picker.ModelRule, len(m.Named))
		for name, r := range m.Named {
			out.Named[name] = rule(r)
		}
	}
	return out
}

func flowControl(s *model.PickerSettings) *picker.FlowControl {
	f := s.FlowControl
	if !f.On {
		return nil
	}
	out := &picker.FlowControl{
		Limits:     flow.Limits{Requests: int(f.Requests), Bytes: f.Bytes, TTL: f.TTL, EmptyTTL: f.EmptyTTL},
		Saturation: flow.Saturation{Queue: f.Queue, KV: f.KVCache, InFlight: int64(s.FullInFlight)},
	}
	if f.InFlight > 0 && (out.InFlight == 0 || f.InFlight < out.InFlight) {
		out.InFlight = f.InFlight
	}
	for _, b := range f.TTLs {
		out.TTLs = append(out.TTLs, flow.BandTTL{Priority: int(b.Priority), Negative: b.Negative, TTL: b.TTL})
	}
	if f.Deadlines {
		out.Limits.Order = flow.Deadline
	}
	return out
}

// serverProtocol derives the protocol from appProtocol and a BackendTLSPolicy, as Envoy does.
func serverProtocol(pp translator.PickerPool) upstream.Protocol {
	by := upstream.Protocol{HTTP2: pp.Pool.Protocol == model.H2C}
	if pp.TLS == nil && pp.Pool.Settings.UnverifiedTLS {
		config, err := dial.TLS{}.Config()
		if err != nil {
			return by
		}
		by.TLS, by.Key = config, "unverified"
		return by
	}
	if pp.TLS == nil {
		return by
	}
	verify := &dial.Verify{Roots: pp.CA, SANs: pp.TLS.SANs, URIs: pp.TLS.URIs}
	config, err := dial.TLS{ServerName: pp.TLS.SNI, Verify: verify}.Config()
	if err != nil {
		return by
	}
	by.TLS, by.Key = config, fmt.Sprintf("%q %q %q %x", pp.TLS.SNI, pp.TLS.SANs, pp.TLS.URIs, sha256.Sum256(pp.CA))
	return by
}

func dialed(p *model.ExternalPicker) (at []dial.Address, tls dial.TLS) {
	for _, a := range p.Addresses {
		at = append(at, dial.Address{AddrPort: a.Addr, Cleartext: a.Cleartext})
	}
	tls = dial.TLS{ServerName: p.TLS.SNI, Certificate: p.Chain, Key: p.Key}
	if len(p.TLS.SANs)+len(p.TLS.URIs) > 0 {
		tls.Verify = &dial.Verify{Roots: p.CA, SANs: p.TLS.SANs, URIs: p.TLS.URIs}
	}
	return at, tls
}
