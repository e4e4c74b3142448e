package shape

import (
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// ReconnectGrace is how long a Gateway stays programmed after its last proxy has disconnected,
// because proxies may be reconnecting to another penstock process.
const ReconnectGrace = time.Minute

// Proxies is the state of a Gateway's proxies.
type Proxies struct {
	Connected int           // number of proxies connected to any penstock process
	Acked     bool          // all proxies have acknowledged the current generation's listeners
	Absent    time.Duration // time since the last proxy disconnected; 0: a proxy is connected
	Before    int64         // the last generation that the status reports as programmed; 0: none
	// Addressless is the Service ("namespace/name") in front of the proxies, if the Service has no
	// address; otherwise "".
	Addressless string
}

// Programmed returns the condition Programmed of a Gateway, a ListenerSet or one of their
// listeners, and the generation that it describes; 0: the current generation. reported is the
// board's condition. If reported is True, the result is True once the proxies have an address, are
// connected, and have acknowledged all listeners. Until then, the last programmed generation stays
// programmed.
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
