package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/translator"
)

type gate struct {
	table  *authz.Table
	tokens authz.Tokens
}

func (e *Explained) explainAccess(view *store.View, q translator.Query, now time.Time, gate func() gate) {
	if len(e.Gates) == 0 {
		if (q.Key != "" || q.Token != "") && e.Route != nil {
			e.Access = "no AccessPolicy is above the route: it is open"
		}
		return
	}
	policies := strings.Join(e.Gates, ", ")
	r := authz.Request{Policies: e.Gates, Pools: e.Reaches, Known: true}
	if e.ByModel {
		r.Model = q.Model
	}
	if closed := closedPolicy(view, e.Gates); closed != "" {
		e.decided(authz.Decision{Reason: authz.ReasonClosed, Policy: closed}, nil, q.Model, "", "")
		return
	}
	var d authz.Decision
	var err error
	unselected := "select it"
	unknown := "it does not exist, is disabled or has ended, or is selected by none of " + policies
	switch {
	case q.Token != "":
		var why []error
		at := gate()
		d, why, err = at.table.DecideToken(context.Background(), r, at.tokens, q.Token, now)
		unknown, unselected = reasonsOf(e.Gates, why, d)
	case q.Key != "":
		d, err = gates.TableOf(view).DecideFor(r, q.Key, now)
	default:
		what, flags := required(view, e.Gates)
		e.Access = "AccessPolicy " + policies + " requires " + what + ": add " + flags
		if e.Answer != "" {
			e.Answer = "401 invalid_api_key without " + what + "; with one that the policies let in: " + e.Answer
		}
		return
	}
	e.decided(d, err, q.Model, unknown, unselected)
}

// closedPolicy returns the first policy if all policies deny every request; otherwise "".
func closedPolicy(view *store.View, policies []string) string {
	for _, id := range policies {
		if p := gates.PolicyOf(view, id); p == nil || !p.Closed {
			return ""
		}
	}
	return policies[0]
}

// required returns which credentials policies require, and the flags of explain that pass them.
func required(view *store.View, policies []string) (what, flags string) {
	for _, id := range policies {
		if p, ok := store.AccessPolicies.Get(view, id); ok && p.Spec.JWT != nil {
			return "an API key or a token", "--key NAME, or --token-file FILE"
		}
	}
	return "an API key", "--key NAME"
}

// reasonsOf returns why policies deny a token (all), and why the deciding policy denies it (one).
func reasonsOf(policies []string, why []error, d authz.Decision) (all, one string) {
	var texts []string
	for i, err := range why {
		if err != nil {
			texts = append(texts, fmt.Sprintf("AccessPolicy %s: %v", policies[i], err))
		}
		if policies[i] == d.Policy && err != nil {
			one = "let it in: " + err.Error()
		}
	}
	return strings.Join(texts, "; "), one
}

func (e *Explained) decided(d authz.Decision, err error, model, unknown, unselected string) {
	policies := strings.Join(e.Gates, ", ")
	switch {
	case err != nil:
		e.deny(503, "authorization_unavailable", err.Error())
	case d.Reason == authz.ReasonInvalidKey:
		e.deny(401, d.Reason, unknown)
	case d.Reason == authz.ReasonClosed:
		e.deny(403, d.Reason, "AccessPolicy "+d.Policy+" is invalid and lets nothing in: penstock status names its "+
			"mistake")
	case d.Reason == authz.ReasonNotPermitted:
		e.deny(403, d.Reason, "AccessPolicy "+d.Policy+" does not "+unselected)
	case d.Reason == authz.ReasonModel && !e.ByModel:
		e.deny(403, d.Reason, "it has models, and no AccessPolicy above the route has byModel: "+policies)
	case d.Reason == authz.ReasonModel:
		e.deny(403, d.Reason, fmt.Sprintf("it does not name model %q", model))
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
