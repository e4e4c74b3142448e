package picks

import (
	"bytes"
	_ "embed"
	"net/netip"
	"text/template"
)

//go:embed envoy.yaml.tmpl
var envoyTemplate string

var envoyConfig = template.Must(template.New("envoy").Parse(envoyTemplate))

// Gateway describes one Envoy. The header x-bench selects the route: KIND-headers sends only
// headers to the server of that kind, and KIND-prompts also the body (BUFFERED).
type Gateway struct {
	Listen  netip.AddrPort
	Servers map[string]netip.AddrPort // by kind
	Models  []netip.AddrPort
}

// Modes returns the body mode for each last part of x-bench.
func (Gateway) Modes() map[string]string {
	return map[string]string{"headers": "NONE", "prompts": "BUFFERED"}
}

// Bootstrap renders the Envoy's bootstrap configuration.
func (g Gateway) Bootstrap() ([]byte, error) {
	var out bytes.Buffer
	err := envoyConfig.Execute(&out, g)
	return out.Bytes(), err
}
