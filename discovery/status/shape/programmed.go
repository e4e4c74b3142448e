package shape

import (
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// ReconnectGrace is how long a Gateway whose proxies have all disconnected stays programmed: they
// may be reconnecting to another penstock process.
const ReconnectGrace = time.Minute

// Proxies is what is known of the proxies of a Gateway when its status is made.
type Proxies struct {
	Connected int           // to any penstock process
	Acked     bool          // all of them have acknowledged the listeners of the current generation
	Absent    time.Duration // how long none has been connected
	Before    int64         // the generation for which the last written status reports Programmed; 0 for none
	// Addressless is the Service ("namespace/name") through which the Gateway's proxies are
	// reached, if it has no address; else "".
	Addressless string
}

// Programmed decides whether a Gateway, a ListenerSet or one of their listeners is programmed, and
// for which generation; 0 means the current one. It is the only place that does.
//
// reported is the condition on the board. There, each source that keeps the Gateway from being
// programmed has reported False with its own reason: translation an invalid configuration, the
// supervisor a port or an address that is not free or pods that do not start, a proxy a NACK;
// status.Sources ranks them. Where all of them report True, the proxies decide: an address to reach
// them, a connection, and the acknowledgement of all listeners. A generation that was programmed
// stays so until the next one is.
func Programmed(reported report.Condition, p Proxies) (c report.Condition, generation int64) {
	pending := func(reason gatewayv1.GatewayConditionReason, message string) (report.Condition, int64) {
		return report.NotProgrammed(string(reason), message), 0
	}
	switch {
	case reported.Status != report.True:
		return reported, 0
	case p.Addressless != "":
		return pending(gatewayv1.GatewayReasonAddressNotAssigned, "Service "+p.Addressless+" has no address yet")
	case p.Connected > 0 && p.Acked:
		return reported, 0
	case p.Connected == 0 && (p.Before == 0 || p.Absent > ReconnectGrace):
		return pending(gatewayv1.GatewayReasonPending, "no proxy is connected")
	case p.Before != 0:
		return reported, p.Before
	}
	return pending(gatewayv1.GatewayReasonPending, "the proxies have not acknowledged the listeners yet")
}
