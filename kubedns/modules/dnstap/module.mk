# protoc-c generates code from dnstap.proto, which describes dnstap's messages. This code is compiled without our warnings.
dnstap_PACKAGES := libfstrm-dev libprotobuf-c-dev protobuf-c-compiler
dnstap_PACKAGES_TEST := fstrm-bin
dnstap_LIBS := -lfstrm -lprotobuf-c
dnstap_GENERATED := dnstap.pb-c.o

DNSTAP := $(BUILD)/kubedns/modules/dnstap/dnstap
$(DNSTAP).pb-c.c $(DNSTAP).pb-c.h &: kubedns/modules/dnstap/dnstap.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=. --c_out=$(BUILD) $<
$(DNSTAP).pb-c.o: $(DNSTAP).pb-c.c
	$(CC) $(CFLAGS_ALL) -w -c -o $@ $<
$(DNSTAP)_frame.o $(DNSTAP).pb-c.o: CFLAGS_ALL += -I$(BUILD)
$(DNSTAP)_frame.o: $(DNSTAP).pb-c.h
