package inference_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const processorService = "\n---\nkind: Service\nmetadata: {name: p}\nspec: {ports: [{port: 8080}]}"

func TestProcessor_PoolReadsBodiesAndSpillsWithHops(t *testing.T) {
	v := world(t,
		poolWith("{strategy: random, processor: {service: p, timeout: 3s, headers: [x-tenant], route: true}}")+
			processorService)
	p := pool(t, v, "default/chat")
	if got := p.Settings.Processor; got == nil || got.Service != "p" || got.Port != 8080 ||
		got.Timeout != 3*time.Second || !slices.Equal(got.Headers, []string{"x-tenant"}) || !got.Route {
		t.Errorf("got %+v, want p at 8080 after 3s, with x-tenant and a route", got)
	}
	if p.Picker.Body != model.BodyBuffered || !p.Settings.ChangesBodies() {
		t.Errorf("body %q, changes bodies %v; want %q, true",
			p.Picker.Body, p.Settings.ChangesBodies(), model.BodyBuffered)
	}
	if p := pool(t, world(t, poolWith("{processor: {service: p}}")+processorService),
		"default/chat"); p.Settings.Processor.Timeout != time.Second {
		t.Errorf("%+v, want Timeout %v", p.Settings.Processor, time.Second)
	}
}

func TestProcessor_MissingServiceIsReported(t *testing.T) {
	for more, want := range map[string]string{
		"": "spec.picker.processor: there is no Service default/p; create it, or remove the processor",
		strings.Replace(processorService, "8080", "1",
			1): "spec.picker.processor: Service default/p has no port 8080; name one of the Service's ports, or " +
			"remove the processor",
		processorService: "",
	} {
		rep, _ := inference.PolicyReport(world(t, poolWith("{processor: {service: p}}")+more), direct{}, "default/chat")
		i := slices.IndexFunc(rep.Conditions, func(c report.Condition) bool { return c.Type == "ResolvedRefs" })
		if c := rep.Conditions[i]; (c.Reason == "InvalidProcessorRef") != (want != "") ||
			!strings.Contains(c.Message, want) {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

func TestProcessor_DefaultIsForPoliciesThatAreSilent(t *testing.T) {
	by := &store.ProcessorDefault{URL: "https://127.0.0.1:8443/v1/prepare", Route: true}
	by.Name = store.OwnProcessor
	for picker, want := range map[string]model.Processor{
		"{}": {Host: "127.0.0.1", TLS: true, Path: "/v1/prepare", Port: 8443,
			Timeout: time.Second, Route: true},
		"{processor: {service: p}}":               {Service: "p", Port: 8080, Timeout: time.Second, Route: true},
		"{processor: {service: p, route: false}}": {Service: "p", Port: 8080, Timeout: time.Second},
	} {
		text, _ := yaml.Marshal(by)
		v := world(t, poolWith(picker)+processorService+"\n---\nkind: ProcessorDefault\n"+string(text))
		p := pool(t, v, "default/chat")
		if diff := cmp.Diff(&want, p.Settings.Processor); diff != "" || p.Picker.Body != model.BodyBuffered {
			t.Errorf("%s: body %q, want %q; processor (-want +got):\n%s",
				picker, p.Picker.Body, model.BodyBuffered, diff)
		}
		if at := inference.ProcessorHost(v, p.Settings.Processor); want.Host != "" &&
			(len(at.Addresses) != 1 || at.Addresses[0].Addr.String() != "127.0.0.1:8443" || at.Addresses[0].Cleartext ||
				at.TLS.SNI != "127.0.0.1") {
			t.Errorf("%s: got %+v, want 127.0.0.1:8443 with TLS", picker, at)
		}
	}
}
