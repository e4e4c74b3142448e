package file_test

import (
	"strings"
	"testing"
)

// Findings must not contain the values of Secrets, because findings are logged, written to the
// status file and served over HTTP.
func TestSecret_FindingHidesValue(t *testing.T) {
	const key = "-----BEGIN PRIVATE KEY-----\n    MIIsecret\n    -----END PRIVATE KEY-----"
	for name, text := range map[string]string{
		"plain text in data": "data:\n  tls.key: |\n    " + key + "\n  tls.crt: |\n    " + key + "\n",
		"text in stringData": "type: kubernetes.io/tls\nstringData:\n  tls.key: |\n    " + key +
			"\n  tls.crt: |\n    " + key + "\n",
		"a list in data":       "data:\n  tls.key: [MIIsecret]\n",
		"a list in stringData": "stringData:\n  tls.key: [MIIsecret]\n",
		"a number":             "data:\n  pin: 4711\n",
		"not YAML":             "data:\n  tls.key: \"MIIsecret\n",
		"no anchor":            "stringData:\n  password: *MIIsecret\n",
		"data is a text":       "data: MIIsecret\n",
		"an unknown field":     "data:\n  a: aGk=\ndate: {x: MIIsecret}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"+text)
			f.load()
			findings := f.findings()
			if len(findings) == 0 {
				t.Error("no finding")
			}
			for _, line := range findings {
				if strings.Contains(line, "MII") || strings.Contains(line, "4711") {
					t.Errorf("the value is shown: %s", line)
				}
			}
		})
	}
}

// Findings must not contain the value of a header, because it may be a credential.
func TestHTTPRoute_FindingHidesAHeadersValue(t *testing.T) {
	for name, rule := range map[string]string{
		"a header that is set":     `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Authorization, value: "Bearer 4711\t"}]}}]`,
		"a header that is matched": `matches: [{headers: [{name: Authorization, value: "Bearer 4711\t"}]}]`,
		"a long one": `matches: [{headers: [{name: Authorization, value: "` +
			strings.Repeat("4711", 2000) + `"}]}]`,
		"a number": `matches: [{headers: [{name: Authorization, value: 4711}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write("r.yaml",
				"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{"+rule+
					"}]}\n")
			f.load()
			findings := f.findings()
			if len(findings) != 1 {
				t.Errorf("%d findings: %q, want 1", len(findings), findings)
			}
			for _, line := range findings {
				if strings.Contains(line, "4711") {
					t.Errorf("the value is shown: %s", line)
				}
			}
		})
	}
}
