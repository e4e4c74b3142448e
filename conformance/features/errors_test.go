package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An error response of Penstock or its Envoy has the form of the request's API, and a reason.
func TestErrors_HaveTheFormOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("nowhere")
	s.server("live")
	s.up("errors.yaml")
	for _, tt := range []struct {
		host, path, model string
		status            int
		reason, message   string
	}{
		{"plain.example", "/dead", "", 503, "server_failed", "no server can be reached"},
		{"plain.example", "/service", "", 503, "server_failed", "no server can be reached"},
		{"plain.example", "/empty", "", 503, "no_endpoints", "pool default/empty has no model server"},
		{"plain.example", "/missing", "", 500, "no_backend", "This route has no backend"},
		{"plain.example", "/other", "", 404, "no_route", "no route of this host matches"},
		{"other.example", "", "", 404, "no_route", "no route of this host matches"},
		{"models.example", "", "gpt", 404, "model_not_found",
			`this host has no route for model gpt; it has llama, qu"en`},
		{"models.example", "", `g\"pt`, 404, "model_not_found",
			`this host has no route for model g"pt; it has llama, qu"en`},
		{"guarded.example", "", "gpt", 404, "model_not_found",
			"this host has no route for model gpt; give one that a route of this host has"},
	} {
		for _, api := range []string{"/v1/chat/completions", "/v1/messages", ""} {
			if api == "" && tt.model != "" {
				continue
			}
			name := tt.host + tt.path + api
			s.Eventually(name+" answers", func() error {
				body := strings.Replace(question, "llama", tt.model, 1)
				req, err := request(s.Context(), s.base()+tt.path+api, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = tt.host
				got, err := do(client(), req)
				if reason := got.header.Get("x-penstock-reason"); err != nil || got.status != tt.status ||
					reason != tt.reason {
					return fmt.Errorf("got %d with reason %q: %s %w, want %d with reason %q", got.status, reason,
						got.body, err, tt.status, tt.reason)
				}
				return checkError(api, got, tt.reason, tt.message)
			})
		}
	}
	req, err := request(s.Context(), s.base()+"/live/v1/nothing", question)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "plain.example"
	if got, err := do(client(), req); err != nil || got.header.Get("x-penstock-reason") != "" ||
		got.status != http.StatusNotFound {
		t.Errorf("the backend's own 404: got %d %v %s %v, want 404 without a reason", got.status, got.header, got.body,
			err)
	}
}

// checkError requires the error form of an API, which is a path; "": no API's form.
func checkError(api string, got reply, reason, message string) error {
	var e struct {
		Type  string
		Error struct {
			Message, Type string
			Param         *string
			Code          string
		}
	}
	isJSON := json.Unmarshal([]byte(got.body), &e) == nil && got.header.Get("content-type") == "application/json"
	switch {
	case api == "" && isJSON && reason != "no_endpoints": // pickers always answer in JSON
	case api == "":
		return nil
	case !isJSON || !strings.HasPrefix(e.Error.Message, message) || e.Error.Type == "":
	case api == "/v1/messages" && e.Type == "error" && e.Error.Code == "":
		return nil
	case api != "/v1/messages" && e.Type == "" && e.Error.Code == reason:
		return nil
	}
	return fmt.Errorf("%s: got %v %s, want an error in the form of this API, with reason %q", api, got.header, got.body,
		reason)
}

func TestErrors_OfRequestsThatEnvoyRejects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("nowhere")
	s.server("live")
	s.up("errors.yaml")
	for _, api := range []string{"/v1/chat/completions", "/v1/messages", ""} {
		for name, tt := range map[string]struct{ target, header, message string }{
			"no Host":        {target: "/live" + api, message: "the request has no header Host"},
			"invalid path":   {"/live" + api + "?%00#x", "Host: plain.example\r\n", "the path is not valid"},
			"an underscore":  {"/live" + api, "Host: plain.example\r\nx_y: 1\r\n", ""},
			"an invalid URL": {"http:///live" + api, "Host: plain.example\r\n", ""},
		} {
			got, err := s.raw("GET " + tt.target + " HTTP/1.1\r\n" + tt.header + "\r\n")
			if err != nil || got.status != http.StatusBadRequest ||
				got.header.Get("x-penstock-reason") != "bad_request" {
				t.Errorf("%s: got %d %v %v, want 400 with reason bad_request", name+api, got.status, got.header, err)
			}
			form := api
			if tt.message == "" {
				form = ""
			}
			if err := checkError(form, got, "bad_request", tt.message); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestErrors_OfGRPCHaveNoJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("nowhere")
	s.server("live")
	s.up("errors.yaml")
	s.Eventually("a call is answered", func() error {
		req, err := request(s.Context(), s.base()+"/v1/service.of/Nothing", "", "content-type", "application/grpc")
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(client(), req)
		text := got.header.Get("grpc-message")
		return because(err == nil && got.header.Get("grpc-status") == "12" &&
			got.header.Get("x-penstock-reason") == "no_route" &&
			!strings.Contains(text, "{"), got.status, got.header, err)
	})
}
