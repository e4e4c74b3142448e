package file

var patternWords = map[string]string{
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`: "lower-case letters, digits, dashes " +
		"and dots, beginning and ending with a letter or digit",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: "lower-case letters, digits and " +
		"dashes, beginning and ending with a letter or digit",
	`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`: `an API group such as gateway.networking.k8s.io, or "" for the core group`,
	`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`:                                "a kind such as Service",
	`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`: "a host name in lower case, such as " +
		"chat.example.com or *.example.com, without scheme or port",
	`^([0-9]{1,5}(h|m|s|ms)){1,4}$`: "a duration such as 30s, " +
		"500ms or 1m30s",
	"^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$": "a header's name: letters, digits " +
		"and dashes, without a colon",
	`^[!-~]+([\t ]?[!-~]+)*$`: "a header's value: printable ASCII " +
		"without spaces at its ends",
	`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`: "a label's value: letters, digits, " +
		"dashes, dots and underscores",
	`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$`: "a path without spaces, others than " +
		"these characters as %20",
	`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`: "a series as NAME, or as NAME{LABEL=VALUE,LABEL=VALUE}, such as requests{state=waiting}",
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`:                                    "a quantity such as 4, 500m or 16Gi",
	`^/`: "a path that begins with /",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`: "a domain and a path, such as penstock.dev/gateway-controller",
}
