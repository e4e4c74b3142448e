package translator

import (
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// A virtual host that cannot be encoded answers 500. Without it, routes of a wider hostname would
// get its requests.
func TestVirtualHost_UnencodableAnswers500(t *testing.T) {
	owner := report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: "r"}
	got := encodeHost(&model.VirtualHost{
		Chain: "http/80", Host: "a.example", Owners: []report.Ref{owner},
		Routes: []model.Route{
			{Match: model.Match{PathKind: model.PathRegex, Path: "a(b"},
				Action: &model.Action{Direct: &model.Direct{Status: 200}}},
		},
	}, nil)
	enc, err := got.encoded, got.err
	if err == nil || !strings.Contains(err.Error(), "a.example") {
		t.Errorf("got %v, want an error that names a.example", err)
	}
	if enc == nil {
		t.Fatal("there is no such host: a wider one answers")
	}
	var vh routev3.VirtualHost
	if err := proto.Unmarshal(enc.Body, &vh); err != nil {
		t.Fatal(err)
	}
	if enc.Host != "a.example" || len(enc.Owners) != 1 || len(vh.GetRoutes()) != 1 ||
		vh.GetRoutes()[0].GetDirectResponse().GetStatus() != 500 {
		t.Errorf("got %+v: %v, want a.example with its owner and one route to 500", enc, &vh)
	}
}
