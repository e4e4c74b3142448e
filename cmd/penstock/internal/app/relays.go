package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

// relays says on the board of an import why its remote pickers' picks do not serve, as long as that is so, and tells the other
// processes: an Envoy asks any of them for a pick, and one may write status for all. One source a pool and process.
type relays struct {
	board *status.Board
	topic *channel.Topic

	mu       sync.Mutex
	pools    map[string]*model.Pool // those that are relayed
	troubles map[string]picker.RelayFailure
	others   map[string]map[string]bool // peer -> pools of which it has told
}

func newRelays(b *status.Board, c *channel.Channel) *relays {
	r := &relays{board: b, pools: map[string]*model.Pool{}, troubles: map[string]picker.RelayFailure{}, others: map[string]map[string]bool{}}
	r.topic = c.Topic("relays", r.hear)
	return r
}

// follow takes in which pools are relayed. Call it before the picker has them.
func (r *relays) follow(out translator.Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range out.PoolsGone {
		r.leave(name)
	}
	for _, pp := range out.Pools {
		if pp.Pool.Relay == nil {
			r.leave(pp.Pool.Name)
			continue
		}
		r.pools[pp.Pool.Name] = pp.Pool
		if t, ok := r.troubles[pp.Pool.Name]; ok {
			r.say(pp.Pool, t)
		}
	}
}

// leave forgets a pool. r.mu is held.
func (r *relays) leave(name string) {
	delete(r.pools, name)
	if _, ok := r.troubles[name]; ok {
		r.mended(name)
	}
}

// mended takes back what is said of a pool. r.mu is held.
func (r *relays) mended(name string) {
	delete(r.troubles, name)
	r.board.Replace(relaySource(name))
	r.topic.Withdraw(name)
}

// Trouble is what picker.Config.OnRelayFailure wants.
func (r *relays) Trouble(name string, t picker.RelayFailure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pool := r.pools[name]
	switch {
	case pool == nil:
	case t == (picker.RelayFailure{}):
		r.mended(name)
	default:
		r.troubles[name] = t
		r.say(pool, t)
	}
}

func relaySource(pool string) string { return "relay " + pool }

func (r *relays) say(pool *model.Pool, t picker.RelayFailure) {
	f := refusedFinding(pool, t.OutOfRange)
	if t.NoAnswer != "" {
		f = unansweredFinding(pool, t.NoAnswer)
	}
	f.Severity, f.Owner = report.Error, pool.Ref
	said := report.Report{Owner: pool.Ref, Findings: []report.Finding{f}}
	r.board.Replace(relaySource(pool.Name), said)
	if raw, err := json.Marshal(said); err == nil { // plain values
		r.topic.Tell(channel.Fact{Name: pool.Name, Body: raw})
	}
}

// hear takes in what the picks of another process come to. One that is gone picks no more.
func (r *relays) hear(_ context.Context, n channel.News) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	source := func(pool string) string { return relaySource(pool) + " at " + n.Peer }
	gone := n.Gone
	if n.All {
		gone = slices.Collect(maps.Keys(r.others[n.Peer]))
	}
	told := r.others[n.Peer]
	if n.All || told == nil {
		told = map[string]bool{}
		r.others[n.Peer] = told
	}
	for _, pool := range gone {
		delete(told, pool)
		r.board.Replace(source(pool))
	}
	for _, f := range n.Facts {
		var said report.Report
		if bad := json.Unmarshal(f.Body, &said); bad != nil {
			err = errors.Join(err, fmt.Errorf("pool %s: %w", f.Name, bad))
			continue
		}
		told[f.Name] = true
		r.board.Replace(source(f.Name), said)
	}
	return err
}

func unansweredFinding(pool *model.Pool, why string) report.Finding {
	relay := pool.Relay
	var at []string
	for _, a := range relay.Pickers {
		at = append(at, a.String())
	}
	fix := "see that it runs there and can be reached from here"
	switch {
	case relay.TLS && strings.Contains(why, extproc.ReasonCleartext):
		fix = "set appProtocol: kubernetes.io/h2c on the service's port"
	case relay.TLS && strings.Contains(why, extproc.ReasonHandshake):
		fix = "if it serves cleartext, as a Penstock's own picker does, set appProtocol: kubernetes.io/h2c on the service's port"
	case !relay.TLS:
		fix += "; if it serves TLS, leave appProtocol: kubernetes.io/h2c out"
	}
	return report.Finding{
		Field:   relay.Field + ".endpointPicker.service",
		Problem: fmt.Sprintf("cluster %s: its picker at %s cannot be asked: %s", relay.Member, strings.Join(at, ", "), why), Fix: fix,
	}
}

func refusedFinding(pool *model.Pool, address string) report.Finding {
	relay := pool.Relay
	declared := "any address but those of loopback, link-local and multicast"
	if len(relay.CIDRs) > 0 {
		declared = "addresses in " + strings.Join(relay.CIDRs, ", ")
	}
	var ports []string
	for _, p := range pool.Ports {
		ports = append(ports, fmt.Sprint(p))
	}
	return report.Finding{
		Field: relay.Field,
		Problem: fmt.Sprintf("cluster %s: its picker named %s, which is not sent to: declared are %s, at port %s",
			relay.Member, address, declared, strings.Join(ports, ", ")),
		Fix: "if its pods are there, write their range in podCIDRs and their port in targetPortNumber (or targetPorts)",
	}
}
