package inference

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

const fieldProcessor = "spec.picker.processor"

const (
	defaultProcessorPort    = 8080
	defaultProcessorTimeout = time.Second
)

func withProcessor(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	by, _ := store.ProcessorDefaults.Get(r, store.OwnProcessor)
	if by == nil {
		by = new(store.ProcessorDefault)
	}
	if policy == nil || policy.Spec.Picker.Processor == nil {
		p.Settings.Processor = processorAt(by)
	} else {
		spec := policy.Spec.Picker.Processor
		processor := &model.Processor{Service: spec.Service, Port: or(spec.Port, defaultProcessorPort),
			Timeout: defaultProcessorTimeout, Headers: spec.Headers, Route: by.Route}
		if spec.Timeout != nil {
			processor.Timeout = spec.Timeout.Duration
		}
		if spec.Route != nil {
			processor.Route = *spec.Route
		}
		p.Settings.Processor = processor
	}
	checkProcessor(r, p, policy)
}

func processorAt(by *store.ProcessorDefault) *model.Processor {
	at, err := url.Parse(by.URL)
	if by.URL == "" || err != nil {
		return nil
	}
	p := &model.Processor{Host: at.Hostname(), TLS: at.Scheme == "https", Path: at.EscapedPath(), Port: 80,
		Timeout: defaultProcessorTimeout, Route: by.Route}
	if p.TLS {
		p.Port = 443
	}
	if port, err := strconv.ParseUint(at.Port(), 10, 16); err == nil {
		p.Port = int32(port)
	}
	return p
}

// ProcessorHost returns the addresses of a processor that is not a Service; zero for a Service.
func ProcessorHost(r store.Reader, processor *model.Processor) (at model.ExternalPicker) {
	if processor.Host == "" {
		return at
	}
	for _, ip := range services.Lookup(r, processor.Host).Addresses {
		at.Addresses = append(at.Addresses, model.RemoteAddress{
			Addr: netip.AddrPortFrom(ip, uint16(processor.Port)), Cleartext: !processor.TLS,
		})
	}
	if processor.TLS {
		at.TLS = model.UpstreamTLS{SNI: processor.Host, SANs: []string{processor.Host}}
	}
	return at
}

func checkProcessor(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	processor := p.Settings.Processor
	switch {
	case processor == nil:
		return
	case processor.Service == "":
		host := services.Mention(r, processor.Host)
		problem, fix := host.Outside, addresses.Fix(host.Outside)
		if host.Failed {
			problem, fix = host.Unresolved, "correct the host in EXTERNAL_LLM_PROCESSOR_ENDPOINT, or its record in DNS"
		}
		if problem != "" {
			p.Findings = append(p.Findings,
				errorOn(p.Ref, "", "the processor of EXTERNAL_LLM_PROCESSOR_ENDPOINT is not asked: "+problem, fix))
		}
		return
	}
	if problem, fix := servicePort(r, p.Ref.Namespace, processor.Service, processor.Port); problem != "" {
		p.Findings = append(p.Findings,
			errorOn(store.PoolPolicies.Ref(policy), fieldProcessor, problem, fmt.Sprintf(fix, "the processor")))
	}
}

func invalidProcessor(f report.Finding) bool {
	return f.Severity == report.Error && strings.HasPrefix(f.Field, fieldProcessor)
}
