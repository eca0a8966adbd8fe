package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A values flag may be given several times.
type values []string

func (v *values) String() string     { return strings.Join(*v, " ") }
func (v *values) Set(s string) error { *v = append(*v, s); return nil }

// A child is one part of the control plane: a process of this program, or of another with the same arguments.
type child struct {
	name string
	args []string
	file string // the program, if it is not this one
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended; nil if there is none
}

type plane struct {
	dir                         string
	etcd, apiserver, controller child
	url                         string
	grace                       time.Duration
}

func up(ctx context.Context, args []string) error {
	// Children get a signal when the thread that started them ends (Pdeathsig), so stay on it.
	runtime.LockOSThread()
	fs := flag.NewFlagSet("up", flag.ExitOnError)
	dir := fs.String("dir", "control-plane", "directory of all state: etcd data, keys, tokens, logs")
	bind := fs.String("bind", "127.0.0.1", "address that the API server listens on")
	port := fs.Int("port", 6443, "port of the API server; 0 picks a free one")
	advertise := fs.String("advertise", "192.0.2.1", "address of the API server in the endpoints of the Service kubernetes (may not be loopback)")
	cidr := fs.String("service-cidr", "10.96.0.0/12,fd00:10:96::/108", "service address ranges, IPv4 first or alone")
	list := fs.String("controllers", allControllers, "controllers to run; \"\" runs none")
	nodes := fs.Int("nodes", 3, "nodes that the fake kubelet makes")
	leave := fs.String("leave", "", "namespaces whose pods the fake kubelet leaves alone, since the caller runs them")
	fsync := fs.Bool("fsync", false, "let etcd write data to disk before answering")
	pause := fs.Duration("pause", 0, "how long the API server stays away when it is restarted by SIGHUP or SIGUSR1")
	grace := fs.Duration("grace", 5*time.Second, "how long a part may take to end before it is killed; kube-apiserver takes up to 60 s while clients keep watches open")
	user := fs.String("user", "system:serviceaccount:kube-system:kube-dns", "user of the second token, a service account")
	other := fs.String("apiserver", "", "kube-apiserver to run in place of the own one: another version's, built from older/")
	var sans, extra values
	fs.Var(&sans, "san", "further name or address in the server's certificate (repeatable)")
	fs.Var(&extra, "apiserver-flag", "further flag of kube-apiserver, such as --v=2 (repeatable)")
	fs.Parse(args)

	begin := time.Now()
	root, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	p := &plane{dir: root, grace: *grace}
	for _, d := range []string{"log", "pki", "serviceaccount"} {
		if err := os.MkdirAll(p.path(d), 0o755); err != nil {
			return err
		}
	}
	if *port == 0 {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	etcdPort, err := freePort()
	if err != nil {
		return err
	}
	// If it listens on all addresses, clients use one that its certificate contains.
	host := *bind
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	p.url = fmt.Sprintf("https://%s", net.JoinHostPort(host, fmt.Sprint(*port)))
	if err := p.writeKeys(append(sans, *bind, "127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", firstAddress(*cidr))); err != nil {
		return err
	}
	token, err := p.writeTokens(*user)
	if err != nil {
		return err
	}

	p.etcd = child{name: "etcd", args: []string{"-data", p.path("etcd"), "-port", fmt.Sprint(etcdPort), fmt.Sprintf("-fsync=%t", *fsync)}}
	p.apiserver = child{name: "apiserver", file: *other, args: append([]string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcdPort),
		"--bind-address=" + *bind, fmt.Sprintf("--secure-port=%d", *port), "--advertise-address=" + *advertise,
		"--tls-cert-file=" + p.path("pki/server.crt"), "--tls-private-key-file=" + p.path("pki/server.key"),
		"--token-auth-file=" + p.path("pki/tokens.csv"), "--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.path("pki/serviceaccount.key"),
		"--service-account-signing-key-file=" + p.path("pki/serviceaccount.key"),
		"--service-cluster-ip-range=" + *cidr, "--allow-privileged=true",
	}, extra...)}
	p.controller = child{name: "controllers", args: []string{"-kubeconfig", p.path("kubeconfig"), "-controllers", *list, "-nodes", fmt.Sprint(*nodes), "-leave", *leave}}

	// Parts are always stopped in reverse order.
	defer func() {
		for _, c := range []*child{&p.controller, &p.apiserver, &p.etcd} {
			p.stop(c, syscall.SIGTERM)
		}
		os.Remove(p.path("ready"))
		os.Remove(p.path("up.pid"))
	}()
	os.Remove(p.path("ready"))
	if err := os.WriteFile(p.path("up.pid"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		return err
	}
	if err := p.start(&p.etcd); err != nil {
		return err
	}
	if err := p.await(ctx, &p.etcd, fmt.Sprintf("http://127.0.0.1:%d/health", etcdPort), nil); err != nil {
		return err
	}
	if err := p.startAPI(ctx); err != nil {
		return err
	}
	if *list != "" {
		if err := p.start(&p.controller); err != nil {
			return err
		}
	}
	ready, _ := json.Marshal(map[string]any{"url": p.url, "ca": p.path("pki/ca.crt"), "token": token, "kubeconfig": p.path("kubeconfig"),
		"serviceaccount": p.path("serviceaccount"), "ready_seconds": time.Since(begin).Seconds()})
	if err := p.sayReady(append(ready, '\n')); err != nil {
		return err
	}
	fmt.Printf("%s\n", ready)

	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP, syscall.SIGUSR1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.etcd.done:
			return p.failed(&p.etcd)
		case <-p.apiserver.done:
			return p.failed(&p.apiserver)
		case <-p.controller.done:
			return p.failed(&p.controller)
		case s := <-hup:
			// SIGHUP stops the API server and SIGUSR1 kills it. In both cases it is restarted after the pause.
			how := syscall.SIGTERM
			if s == syscall.SIGUSR1 {
				how = syscall.SIGKILL
			}
			os.Remove(p.path("ready"))
			p.stop(&p.apiserver, how)
			select {
			case <-ctx.Done():
				return nil
			case <-p.away(*pause):
			}
			if err := p.startAPI(ctx); err != nil {
				return err
			}
			if err := p.sayReady(append(ready, '\n')); err != nil {
				return err
			}
		}
	}
}

// away ends when the API server may be restarted: after the pause, and not while the file "away" is in the directory,
// with which a caller controls the time.
func (p *plane) away(pause time.Duration) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for time.Sleep(pause); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(p.path("away")); err != nil {
				return
			}
		}
	}()
	return over
}

// sayReady writes the file that others wait for, atomically.
func (p *plane) sayReady(text []byte) error {
	if err := os.WriteFile(p.path("ready.new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(p.path("ready.new"), p.path("ready"))
}

func (p *plane) failed(c *child) error {
	return fmt.Errorf("%s ended: %v; see %s", c.name, c.cmd.ProcessState, p.path("log/"+c.name+".log"))
}

func (p *plane) path(name string) string { return filepath.Join(p.dir, name) }

func (p *plane) start(c *child) error {
	program := c.file
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.path("log/"+c.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, append([]string{c.name}, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// In its own process group: a ^C at the terminal reaches only this process, which then stops the parts in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	c.cmd, c.done = cmd, done
	go func() {
		cmd.Wait()
		close(done)
	}()
	return os.WriteFile(p.path(c.name+".pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o644)
}

// stop ends a running part, and kills it if it does not end in time.
func (p *plane) stop(c *child, how syscall.Signal) {
	if c.cmd == nil {
		return
	}
	c.cmd.Process.Signal(how)
	select {
	case <-c.done:
	case <-time.After(p.grace):
		c.cmd.Process.Kill()
		<-c.done
	}
	c.cmd, c.done = nil, nil
	os.Remove(p.path(c.name + ".pid"))
}

func (p *plane) startAPI(ctx context.Context) error {
	if err := p.start(&p.apiserver); err != nil {
		return err
	}
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(p.path("pki/ca.crt"))
	if err != nil {
		return err
	}
	pool.AppendCertsFromPEM(ca)
	return p.await(ctx, &p.apiserver, p.url+"/readyz", &tls.Config{RootCAs: pool})
}

// await returns when the part's address responds with status 200.
func (p *plane) await(ctx context.Context, c *child, url string, conf *tls.Config) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if resp, err := client.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return p.failed(c)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not become ready", url)
}

// writeTokens creates the tokens of an administrator and of a service account, unless they exist.
func (p *plane) writeTokens(user string) (admin string, err error) {
	read := func(name string) (string, error) {
		b, err := os.ReadFile(p.path(name))
		if errors.Is(err, os.ErrNotExist) {
			b = []byte(rand.Text())
			err = os.WriteFile(p.path(name), b, 0o600)
		}
		return string(b), err
	}
	if admin, err = read("token"); err != nil {
		return "", err
	}
	account, err := read("serviceaccount/token")
	if err != nil {
		return "", err
	}
	ns := "default"
	groups := "system:authenticated"
	if part := strings.Split(user, ":"); len(part) == 4 && part[1] == "serviceaccount" {
		ns = part[2]
		groups = "system:serviceaccounts,system:serviceaccounts:" + ns
	}
	ca, err := os.ReadFile(p.path("pki/ca.crt"))
	if err != nil {
		return "", err
	}
	files := map[string]string{
		"pki/tokens.csv":           fmt.Sprintf("%s,admin,admin,system:masters\n%s,%s,%s,%q\n", admin, account, user, user, groups),
		"serviceaccount/namespace": ns,
		"serviceaccount/ca.crt":    string(ca),
		"kubeconfig": fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: ctl\n"+
			"clusters: [{name: ctl, cluster: {server: %q, certificate-authority: %q}}]\n"+
			"users: [{name: admin, user: {token: %q}}]\n"+
			"contexts: [{name: ctl, context: {cluster: ctl, user: admin}}]\n", p.url, p.path("pki/ca.crt"), admin),
	}
	for name, text := range files {
		if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return admin, nil
}

// writeKeys creates a certificate authority and the key for service account tokens, unless they exist. It always
// creates a new server certificate.
func (p *plane) writeKeys(names []string) error {
	caKey, err := p.key("pki/ca.key")
	if err != nil {
		return err
	}
	if _, err := p.key("pki/serviceaccount.key"); err != nil {
		return err
	}
	serverKey, err := p.key("pki/server.key")
	if err != nil {
		return err
	}
	template := func(name string) *x509.Certificate {
		serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
		return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0)}
	}
	ca := template("ctl-ca")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if old, err := os.ReadFile(p.path("pki/ca.crt")); err == nil {
		block, _ := pem.Decode(old)
		if block == nil {
			return fmt.Errorf("%s holds no certificate", p.path("pki/ca.crt"))
		}
		if ca, err = x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
	} else if ca, err = p.sign("pki/ca.crt", ca, ca, caKey, caKey); err != nil {
		return err
	}
	server := template("kube-apiserver")
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, n)
		}
	}
	_, err = p.sign("pki/server.crt", server, ca, serverKey, caKey)
	return err
}

func (p *plane) key(name string) (*ecdsa.PrivateKey, error) {
	if b, err := os.ReadFile(p.path(name)); err == nil {
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, fmt.Errorf("%s holds no key", p.path(name))
		}
		return x509.ParseECPrivateKey(block.Bytes)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (p *plane) sign(name string, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// firstAddress returns the address of the Service kubernetes: the first of the range.
func firstAddress(cidr string) string {
	first, _, _ := strings.Cut(cidr, ",")
	ip, _, err := net.ParseCIDR(first)
	if err != nil {
		return "localhost"
	}
	ip[len(ip)-1]++
	return ip.String()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
