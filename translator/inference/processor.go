package inference

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

const fieldProcessor = "spec.picker.processor"

const (
	defaultProcessorPort    = 8080
	defaultProcessorTimeout = time.Second
)

// processor fills in the defaults of a policy's processor; nil without one.
func processor(spec *v1alpha1.ProcessorSpec) *model.Processor {
	if spec == nil {
		return nil
	}
	p := &model.Processor{Service: spec.Service, Port: or(spec.Port, defaultProcessorPort), Timeout: defaultProcessorTimeout, Headers: spec.Headers, Route: spec.Route}
	if spec.Timeout != nil {
		p.Timeout = spec.Timeout.Duration
	}
	return p
}

// checkProcessor finds a processor whose Service cannot be asked.
func checkProcessor(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	of := p.Settings.Processor
	if of == nil {
		return
	}
	if problem, fix := servicePort(r, p.Ref.Namespace, of.Service, of.Port); problem != "" {
		p.Findings = append(p.Findings, report.Finding{Severity: report.Error, Owner: store.PoolPolicies.Ref(policy), Field: fieldProcessor, Problem: problem, Fix: fmt.Sprintf(fix, "the processor")})
	}
}

// invalidProcessor reports whether an error is about a processor's Service.
func invalidProcessor(f report.Finding) bool {
	return f.Severity == report.Error && strings.HasPrefix(f.Field, fieldProcessor)
}
