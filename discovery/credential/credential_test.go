package credential_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/credential"
)

func TestCredential_NamesOfHeadersAndParameters(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "proxy-authorization": true, "Cookie": true, "X-Api-Key": true, "api_key": true,
		"apikey": true, "key": true,
		"X-Auth-Token": true, "X-Amz-Security-Token": true, "Ocp-Apim-Subscription-Key": true, "client_secret": true,
		"sig":             true,
		"X-Amz-Signature": true, "x-jwt-assertion": true, "passwd": true, "pwd": true, "access_key_id": true,
		"example.com/api.key": true, "session-id": true,
		"accept": false, ":authority": false, "set-cookie": false, "x-tenant": false, "monkey": false, "x-model": false,
		"keynote": false, "user-agent": false,
		"max_tokens": false, "x-max-tokens": false, "maxTokens": false, "max_completion_tokens": false,
		"tokenizer": false, "author": false, "x-author": false,
		"x-author-token": true, "tokens": true, "tokenizer_key": true,
		"authority": true, "x-authorization": true, "max-auth-tokens": true,
	} {
		if got := credential.Named(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
	if got := credential.Value("X-Api-Key", "sk-1"); got != "redacted: 4 bytes" {
		t.Error(got)
	}
	if got := credential.Value("X-Tenant", "blue"); got != "blue" {
		t.Error(got)
	}
}

func TestCredential_IsNoPartOfAText(t *testing.T) {
	const secret = "a1-B2_c3d4e5f6g7h8i9"
	long := strings.ReplaceAll(secret, "-", "") + "j0k"
	for text, want := range map[string]string{
		"/v1?api_key=" + secret:                      "/v1?api_key=redacted",
		"/v1?a=b&token=" + secret + "&c=d#e":         "/v1?a=b&token=redacted&c=d#e",
		"/v1?a=b;c&api%5Fkey=" + secret:              "/v1?a=b;c&api%5Fkey=redacted",
		`path "/v1?key=` + secret + `" has a query`:  `path "/v1?key=redacted" has a query`,
		"https://user:" + secret + "@example.com/v1": "https://redacted@example.com/v1",
		"https://" + secret + "@example.com/v1":      "https://redacted@example.com/v1",
		"user:" + secret + "@example.com":            "redacted@example.com",
		"Bearer " + secret:                           "Bearer redacted",
		"authorization: basic  " + secret:            "authorization: basic  redacted",
		"^Bearer%20" + secret + "$":                  "^Bearer%20redacted$",
		"^(sk-" + long + "|x)$":                      "^(redacted|x)$",
		"hf_" + long + " sk_" + long:                 "redacted redacted",
		"sk-proj-a-b_" + long + "-c gsk_" + long:     "redacted redacted",
		"sk-lf-01234567-89ab-cdef-0123-456789abcdef": "redacted",
		"id AKIAIOSFODNN7EXAMPLE end":                "id redacted end",
		"AIza" + strings.Repeat("aB3-_", 7):          "redacted",
		"https://user:pa=ss1word@h/@x":               "https://redacted@h/@x",
		"https://user:c2VjcmV0MQ==@h":                "https://redacted@h",
		"https://user:p@ss1word@h":                   "https://redacted@h",
		"https://user:p@h@sha256:01":                 "https://redacted@h@sha256:01",
		"Basic dXNlcjpwYXNz":                         "Basic redacted",
		"basic:dTpw== x":                             "basic:redacted x",
		"BeaRer abcdefghijklmnop":                    "BeaRer redacted",
		"DIGEST " + secret:                           "DIGEST redacted",
		"a;api_key=" + secret:                        "a;api_key=redacted",
		"/v1?a=b;api_key=" + secret + ";d&c=d":       "/v1?a=b;api_key=redacted&c=d",
		"a=b; session=" + secret + " c":              "a=b; session=redacted c",
		"a eyJhbGciOiJIUzI1NiJ9." + secret + ".x b":  "a redacted b",
		"-----BEGIN PRIVATE KEY-----" + secret:       "redacted: 47 bytes",
	} {
		if got := credential.Text(text); got != want || strings.Contains(got, secret) {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	for _, text := range []string{
		"", "/v1/chat/completions", "/v1?model=llama-3.1-8b", "chat@example.com is no URL", "spiffe://east/gateway",
		"docker.io/envoyproxy/envoy:v1.40@sha256:0123456789abcdef", "the bearer authentication is missing",
		"tokens per second: 12.5",
		"task-0123456789abcdef01", "^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$",
		"pool default/chat is full", "tokenizer=llama3", "https://[fd00::1]:8443/v1",
		"hf-llama-3-70b-instruct", "sk-hynix-gpu-cluster-01", "sk-seoul-llama-3-8b-instruct",
		"hf-mirror-llama-7d9f8b6c5-x2abc",
		"/models/hf-llama-3-70b-instruct",
		"/v1?max_tokens=5&tokenizer=llama&author=me", "a;b=c; charset=utf-8", "basic authentication is missing",
		"docker://envoy@sha256:0123456789abcdef",
	} {
		if got := credential.Text(text); got != text {
			t.Errorf("%q is shown as %q, want it unchanged", text, got)
		}
	}
}

// FuzzCredential_NoTextShowsAParameter checks that Text hides a credential in a query, whatever
// text precedes it.
func FuzzCredential_NoTextShowsAParameter(f *testing.F) {
	for _, seed := range []string{"/v1?api_key=a&b=c", "https://u:p@h/?x=y", "Bearer abc12345", "", "//@@@",
		"a:b@sha256:c@d", "?&#=="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "canary0123456789"
		if got := credential.Text(text + " https://x/?api_key=" + secret); strings.Contains(got, secret) {
			t.Errorf("%q is shown as %q, want it without the key", text, got)
		}
	})
}
