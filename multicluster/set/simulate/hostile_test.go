package simulate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/fxamacker/cbor/v2"
	googleproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
)

type discoveryResponse = discoveryv3.DeltaDiscoveryResponse

var (
	epochs = regexp.MustCompile(`"epoch":\d+`)
	uids   = regexp.MustCompile(`"uid":"[^"]*"`)
)

// lie replaces one in three responses of a hostile node.
func (n *node) lie(stream string, r *discoveryResponse) *discoveryResponse {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	to, _, _ := strings.Cut(stream, "#")
	before := n.published[to+r.TypeUrl]
	n.published[to+r.TypeUrl] = r
	if !time.Now().Before(n.hostile) {
		return r
	}
	if n.floods && r.TypeUrl == "exports" {
		return n.flood(googleproto.Clone(r).(*discoveryResponse))
	}
	name := fmt.Sprintf("lie %s %s %d", stream, r.TypeUrl, time.Since(n.w.began))
	if n.w.draw(3, name) > 0 {
		return r
	}
	out := googleproto.Clone(r).(*discoveryResponse)
	add := func(key, value string) { add(out, key, value) }
	record := func(pool, address string, epoch uint64) string {
		return fmt.Sprintf(`{"epoch":%d,"sequence":1,"entry":{"name":%q,"routingMode":"EndpointMode",`+
			`"weight":2147483647,"targetPorts":[{"number":8000}],"endpoints":[{"address":%q}],"endpointPicker":{"name":"p","pool":%q,`+
			`"service":[{"addresses":["10.9.9.9"],"ports":[{"number":1}]}]}}}`, epoch, n.name, address, pool)
	}
	edit := func(pattern *regexp.Regexp, with string) {
		for _, res := range out.Resources {
			if text, ok := jsonText(res.GetResource().GetValue()); ok {
				res.Resource = &anypb.Any{Value: wiretest.Value(pattern.ReplaceAllString(text, with))}
			}
		}
	}
	switch n.w.draw(12, name+" which") {
	case 0:
		edit(epochs, `"epoch":18446744073709551615`)
	case 1:
		edit(epochs, `"epoch":0`)
	case 2:
		edit(epochs, `"epoch":9007199254740992`)
	case 3:
		edit(uids, `"uid":"another"`)
	case 4: // exports of other members' pools
		for _, p := range sharedPools {
			add("team/"+p, record("team/"+p, "10.9.0.1", 1))
		}
	case 5: // exports in namespaces that its members do not allow
		add("private/secret", record("private/secret", "10.9.0.2", 1))
	case 6: // stamps above the state's stamp, to which importers limit them
		for i := range 600 {
			add(fmt.Sprintf("team/many-%d", i), record("team/many", "10.9.0.3", 1<<52))
		}
	case 7:
		add("team/"+sharedPools[0], "\x00{")
		add("../../etc", "{}")
		add("team/x#1", `{"epoch":1,"endpoints":[{"address":"10.9.0.4"}]}`)
	case 8: // repeats an earlier response
		if before != nil {
			out = googleproto.Clone(before).(*discoveryResponse)
			out.Nonce = r.Nonce
		}
	case 9:
		out.TypeUrl = "secrets"
	case 10:
		for i := range 5000 {
			out.RemovedResources = append(out.RemovedResources, fmt.Sprintf("team/gone-%d", i))
		}
	case 11:
		out.Resources = append(out.Resources, out.Resources...)
		for _, res := range out.Resources {
			res.Ttl = durationpb.New(-time.Second)
		}
	}
	return out
}

// add adds an item to a response.
func add(to *discoveryResponse, key, value string) {
	raw := &anypb.Any{Value: wiretest.Value(value)}
	to.Resources = append(to.Resources, &discoveryv3.Resource{Name: key, Resource: raw, Version: "x"})
}

// flood adds new exports until they exceed any share.
func (n *node) flood(to *discoveryResponse) *discoveryResponse {
	for range 400 {
		if n.flooded > 3000 {
			break
		}
		n.flooded++
		const record = `{"epoch":4503599627370496,"sequence":1,"entry":{"routingMode":"ParentMode"}}`
		add(to, fmt.Sprintf("team/flood-%d", n.flooded), record)
	}
	return to
}

// jsonText returns the JSON text of a message. ok is false if value is not a message.
func jsonText(value []byte) (text string, ok bool) {
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
	if err != nil {
		return "", false
	}
	var message any
	if mode.Unmarshal(value, &message) != nil {
		return "", false
	}
	out, err := json.Marshal(message)
	return string(out), err == nil
}
