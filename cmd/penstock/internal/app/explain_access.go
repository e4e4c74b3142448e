package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/translator"
)

func (e *Explained) explainAccess(view *store.View, q translator.Query, now time.Time) {
	if len(e.Gates) == 0 {
		if q.Key != "" && e.Route != nil {
			e.Access = "no AccessPolicy is above the route: it is open"
		}
		return
	}
	policies := strings.Join(e.Gates, ", ")
	if q.Key == "" {
		what := "an API key"
		for _, id := range e.Gates {
			if p, ok := store.AccessPolicies.Get(view, id); ok && p.Spec.JWT != nil {
				what = "an API key or a token"
			}
		}
		e.Access = "AccessPolicy " + policies + " requires " + what + ": add --key NAME"
		return
	}
	r := authz.Request{Policies: e.Gates, Pools: e.Reaches, Known: true}
	if e.ByModel {
		r.Model = q.Model
	}
	d, err := gates.TableOf(view).DecideFor(r, q.Key, now)
	switch {
	case err != nil:
		e.deny(503, "authorization_unavailable", err.Error())
	case d.Reason == authz.ReasonInvalidKey:
		e.deny(401, d.Reason, "it does not exist, it has ended, or it is selected by none of "+policies)
	case d.Reason == authz.ReasonNotPermitted:
		e.deny(403, d.Reason, "AccessPolicy "+d.Policy+" does not select it")
	case d.Reason == authz.ReasonModel && !e.ByModel:
		e.deny(403, d.Reason, "it has models, and no AccessPolicy above the route has byModel: "+policies)
	case d.Reason == authz.ReasonModel:
		e.deny(403, d.Reason, fmt.Sprintf("it does not name model %q", q.Model))
	case d.Reason == authz.ReasonPool:
		e.deny(403, d.Reason, "the route may reach "+strings.Join(e.Reaches, ", ")+", and it does not name all")
	default:
		e.Access = "passes AccessPolicy " + policies + " as " + d.Key.Caller
	}
}

func (e *Explained) deny(status int, reason, why string) {
	e.Access = fmt.Sprintf("%d %s: %s", status, reason, why)
	e.Answer, e.Served = fmt.Sprintf("%d: %s", status, reason), false
}
