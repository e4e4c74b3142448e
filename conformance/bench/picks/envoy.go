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

// Gateway configures an Envoy. The header x-bench selects the route: KIND-headers sends only
// headers to KIND's picker, KIND-prompts also the body.
type Gateway struct {
	Listen  netip.AddrPort
	Servers map[string]netip.AddrPort
	Models  []netip.AddrPort
}

// Modes maps the last part of x-bench to a body mode.
func (Gateway) Modes() map[string]string {
	return map[string]string{"headers": "NONE", "prompts": "BUFFERED"}
}

// Bootstrap returns Envoy's bootstrap configuration.
func (g Gateway) Bootstrap() ([]byte, error) {
	var out bytes.Buffer
	err := envoyConfig.Execute(&out, g)
	return out.Bytes(), err
}
